Content-Type: multipart/mixed; boundary="===============6464844955834045801=="
MIME-Version: 1.0
Number-Attachments: 1

--===============6464844955834045801==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============6464844955834045801==--
