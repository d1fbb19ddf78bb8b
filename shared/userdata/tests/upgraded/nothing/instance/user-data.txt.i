Content-Type: multipart/mixed; boundary="===============7642959112565216152=="
MIME-Version: 1.0
Number-Attachments: 1

--===============7642959112565216152==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============7642959112565216152==--
