Content-Type: multipart/mixed; boundary="===============6037639781331498844=="
MIME-Version: 1.0
Number-Attachments: 1

--===============6037639781331498844==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============6037639781331498844==--
