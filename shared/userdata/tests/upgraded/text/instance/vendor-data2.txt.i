Content-Type: multipart/mixed; boundary="===============8444454824722953196=="
MIME-Version: 1.0
Number-Attachments: 1

--===============8444454824722953196==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============8444454824722953196==--
