Content-Type: multipart/mixed; boundary="===============6946525294141005785=="
MIME-Version: 1.0
Number-Attachments: 1

--===============6946525294141005785==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============6946525294141005785==--
