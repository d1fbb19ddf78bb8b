Content-Type: multipart/mixed; boundary="===============1606428917157509467=="
MIME-Version: 1.0
Number-Attachments: 2

--===============1606428917157509467==
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-001"

a: [1, {b: c}]
--===============1606428917157509467==
Content-Type: text/x-shellscript
Content-Disposition: attachment; filename="part-002"

#!/bin/sh

--===============1606428917157509467==--
