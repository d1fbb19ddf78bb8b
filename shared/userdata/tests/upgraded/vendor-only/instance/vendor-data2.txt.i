Content-Type: multipart/mixed; boundary="===============3858895842473120831=="
MIME-Version: 1.0
Number-Attachments: 1

--===============3858895842473120831==
MIME-Version: 1.0
Content-Type: text/x-shellscript
Content-Disposition: attachment; filename="part-001"

#!/bin/sh
echo vendor

--===============3858895842473120831==--
