Content-Type: multipart/mixed; boundary="===============1388842865853379330=="
MIME-Version: 1.0
Number-Attachments: 1

--===============1388842865853379330==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============1388842865853379330==--
