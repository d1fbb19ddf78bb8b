Content-Type: multipart/mixed; boundary="===============4289343057973899782=="
MIME-Version: 1.0
Number-Attachments: 1

--===============4289343057973899782==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============4289343057973899782==--
