Content-Type: multipart/mixed; boundary="===============0117437960274955701=="
MIME-Version: 1.0
Number-Attachments: 1

--===============0117437960274955701==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============0117437960274955701==--
