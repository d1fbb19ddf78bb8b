Content-Type: multipart/mixed; boundary="===============3017832037998905254=="
MIME-Version: 1.0
Number-Attachments: 1

--===============3017832037998905254==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============3017832037998905254==--
