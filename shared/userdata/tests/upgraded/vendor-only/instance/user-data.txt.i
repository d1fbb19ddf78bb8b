Content-Type: multipart/mixed; boundary="===============4691178817251180247=="
MIME-Version: 1.0
Number-Attachments: 1

--===============4691178817251180247==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============4691178817251180247==--
