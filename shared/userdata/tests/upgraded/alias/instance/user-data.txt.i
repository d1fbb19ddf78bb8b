Content-Type: multipart/mixed; boundary="===============0717560114170325787=="
MIME-Version: 1.0
Number-Attachments: 1

--===============0717560114170325787==
MIME-Version: 1.0
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-001"

#cloud-config
base: &b {x: [1, 2], y: z}
a: *b
b: {<<: *b, y: w}
l: [*b, *b]

--===============0717560114170325787==--
