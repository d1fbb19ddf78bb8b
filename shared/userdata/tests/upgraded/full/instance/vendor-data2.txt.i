Content-Type: multipart/mixed; boundary="===============4856675843000474433=="
MIME-Version: 1.0
Number-Attachments: 1

--===============4856675843000474433==
MIME-Version: 1.0
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-001"

#cloud-config
v: 2

--===============4856675843000474433==--
