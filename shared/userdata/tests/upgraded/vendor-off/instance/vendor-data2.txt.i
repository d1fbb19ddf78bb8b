Content-Type: multipart/mixed; boundary="===============2742753821699652947=="
MIME-Version: 1.0
Number-Attachments: 2

--===============2742753821699652947==
Content-Type: text/x-shellscript
Content-Disposition: attachment; filename="part-001"

#!/bin/sh
--===============2742753821699652947==
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-002"

#cloud-config
a: 1
--===============2742753821699652947==--
