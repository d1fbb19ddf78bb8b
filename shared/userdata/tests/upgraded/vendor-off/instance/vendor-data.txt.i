Content-Type: multipart/mixed; boundary="===============2377654443494528896=="
MIME-Version: 1.0
Number-Attachments: 1

--===============2377654443494528896==
MIME-Version: 1.0
Content-Type: text/x-shellscript
Content-Disposition: attachment; filename="part-001"

#!/bin/sh
echo vendor

--===============2377654443494528896==--
