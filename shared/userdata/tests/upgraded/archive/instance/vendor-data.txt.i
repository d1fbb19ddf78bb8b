Content-Type: multipart/mixed; boundary="===============8745037197258931229=="
MIME-Version: 1.0
Number-Attachments: 1

--===============8745037197258931229==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============8745037197258931229==--
