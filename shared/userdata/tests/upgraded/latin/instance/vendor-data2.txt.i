Content-Type: multipart/mixed; boundary="===============7123517314513114644=="
MIME-Version: 1.0
Number-Attachments: 1

--===============7123517314513114644==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============7123517314513114644==--
