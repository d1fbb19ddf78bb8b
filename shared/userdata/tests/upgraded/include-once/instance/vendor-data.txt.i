Content-Type: multipart/mixed; boundary="===============4450716776235649725=="
MIME-Version: 1.0
Number-Attachments: 1

--===============4450716776235649725==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============4450716776235649725==--
