Content-Type: multipart/mixed; boundary="===============7639064015052604590=="
MIME-Version: 1.0
Number-Attachments: 1

--===============7639064015052604590==
MIME-Version: 1.0
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-001"

#cloud-config
name: J��rgen ��� ����
x: ["��"]

--===============7639064015052604590==--
