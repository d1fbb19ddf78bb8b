Content-Type: multipart/mixed; boundary="===============5675635334174704645=="
MIME-Version: 1.0
Number-Attachments: 1

--===============5675635334174704645==
MIME-Version: 1.0
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-001"

#cloud-config
name: J�rgen

--===============5675635334174704645==--
