Content-Type: multipart/mixed; boundary="===============7011263928591934979=="
MIME-Version: 1.0
Number-Attachments: 1

--===============7011263928591934979==
MIME-Version: 1.0
Content-Type: text/x-not-multipart
Content-Disposition: attachment; filename="part-001"


--===============7011263928591934979==--
