Content-Type: multipart/mixed; boundary="===============1535096691503704056=="
MIME-Version: 1.0
Number-Attachments: 1

--===============1535096691503704056==
MIME-Version: 1.0
Content-Type: text/x-shellscript
Content-Disposition: attachment; filename="part-001"

#!/bin/sh
echo vendor

--===============1535096691503704056==--
