Content-Type: multipart/mixed; boundary="===============3566344983480168770=="
MIME-Version: 1.0
Number-Attachments: 1

--===============3566344983480168770==
MIME-Version: 1.0
Content-Type: text/x-shellscript
Content-Disposition: attachment; filename="part-001"

#!/bin/sh
echo vendor

--===============3566344983480168770==--
