Content-Type: multipart/mixed; boundary="===============4419612128134980739=="
MIME-Version: 1.0
Number-Attachments: 1

--===============4419612128134980739==
MIME-Version: 1.0
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-001"

#cloud-config
vendor_data: {enabled: false}
vendor_data2: {enabled: true, disabled_handlers: [text/x-shellscript]}

--===============4419612128134980739==--
