Content-Type: multipart/mixed; boundary="===============3742973219984318298=="
MIME-Version: 1.0
Number-Attachments: 1

--===============3742973219984318298==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============3742973219984318298==--
