Content-Type: multipart/mixed; boundary="===============8159084885948081202=="
MIME-Version: 1.0
Number-Attachments: 1

--===============8159084885948081202==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============8159084885948081202==--
