Content-Type: multipart/mixed; boundary="===============1734558468864485797=="
MIME-Version: 1.0
Number-Attachments: 1

--===============1734558468864485797==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============1734558468864485797==--
