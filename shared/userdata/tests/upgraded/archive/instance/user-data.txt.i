Content-Type: multipart/mixed; boundary="===============9014859126430520876=="
MIME-Version: 1.0
Number-Attachments: 4

--===============9014859126430520876==
Content-Type: text/cloud-config; charset="us-ascii"
MIME-Version: 1.0
Content-Transfer-Encoding: 7bit
Content-Disposition: attachment; filename="part-001"

#cloud-config
x: 1
--===============9014859126430520876==
Content-Type: text/x-shellscript; charset="us-ascii"
MIME-Version: 1.0
Content-Transfer-Encoding: 7bit
Content-Disposition: attachment; filename="a/b c.sh"

#!/bin/sh
echo

--===============9014859126430520876==
Content-Type: text/cloud-config; charset="utf-8"
MIME-Version: 1.0
Content-Transfer-Encoding: base64
Content-Disposition: attachment; filename="part-003"

eTogw6k=

--===============9014859126430520876==
Content-Type: text/x-shellscript; charset="us-ascii"
MIME-Version: 1.0
Content-Transfer-Encoding: 7bit
Content-Disposition: attachment; filename="part-004"

#!/bin/sh
--===============9014859126430520876==--
