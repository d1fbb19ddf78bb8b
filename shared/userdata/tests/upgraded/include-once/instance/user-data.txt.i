Content-Type: multipart/mixed; boundary="===============3853461758528413291=="
MIME-Version: 1.0
Number-Attachments: 2

--===============3853461758528413291==
MIME-Version: 1.0
Content-Type: text/x-shellscript
Content-Disposition: attachment; filename="part-001"

#!/bin/sh
echo one

--===============3853461758528413291==
MIME-Version: 1.0
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-002"

#cloud-config
from: include

--===============3853461758528413291==--
