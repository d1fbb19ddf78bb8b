Content-Type: multipart/mixed; boundary="===============7224078960567976936=="
MIME-Version: 1.0
Number-Attachments: 1

--===============7224078960567976936==
MIME-Version: 1.0
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-001"

#cloud-config
v: 2

--===============7224078960567976936==--
