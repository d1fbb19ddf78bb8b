Content-Type: multipart/mixed; boundary="===============6633353940850428782=="
MIME-Version: 1.0
Number-Attachments: 1

--===============6633353940850428782==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============6633353940850428782==--
