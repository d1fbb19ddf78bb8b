Content-Type: multipart/mixed; boundary="===============3545265619744125132=="
MIME-Version: 1.0
Number-Attachments: 1

--===============3545265619744125132==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"

not anything

--===============3545265619744125132==--
