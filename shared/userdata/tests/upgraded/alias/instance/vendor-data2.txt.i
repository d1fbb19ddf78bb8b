Content-Type: multipart/mixed; boundary="===============0158761397593016041=="
MIME-Version: 1.0
Number-Attachments: 1

--===============0158761397593016041==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============0158761397593016041==--
