Content-Type: multipart/mixed; boundary="===============0786866571184658857=="
MIME-Version: 1.0
Number-Attachments: 1

--===============0786866571184658857==
MIME-Version: 1.0
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-001"

#cloud-config
hostname: h
write_files:
- {path: /x, content: "a\r\n"}

--===============0786866571184658857==--
