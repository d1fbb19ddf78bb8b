Content-Type: multipart/mixed; boundary="===============9206563154270514196=="
MIME-Version: 1.0
Number-Attachments: 12

--===============9206563154270514196==
Content-Type: text/cloud-config; charset="us-ascii"
Content-Disposition: attachment; filename="a b.cfg"
Merge-Type: list(append)+dict(recurse_array)+str()

#cloud-config
runcmd: [[a, b], "c d"]
users:
- default
- {name: x, lock_passwd: no}

--===============9206563154270514196==
Content-Type: text/cloud-config
Merge-Type: list(append)+dict(recurse_array,no_replace)+str()
Content-Disposition: attachment; filename="part-002"

#cloud-config
# a comment
runcmd: [e]
n: null
t: yes
f: 1e+20
g: 0.5
o: 0644
d: 2001-01-01
long: "words and more words words and more words words and more words words and more words words and more words words and more words words and more words words and more words words and more words words and more words "
multi: |
  a
    b
  c
bin: !!binary AAEC/w==
s: "12:30"
emp: {a: {}, b: [], c: ""}
1: x

--===============9206563154270514196==
Content-Type: text/x-shellscript; name="run me.sh"

#!/bin/sh
echo

--===============9206563154270514196==
Content-Type: text/x-shellscript
Content-Transfer-Encoding: base64
Content-Disposition: attachment; filename="part-004"

IyEvYmluL3NoDQplY2hvDQo=
--===============9206563154270514196==
Content-Type: text/x-shellscript-per-boot
Content-Disposition: attachment; filename="part-005"

#!/bin/sh
:
--===============9206563154270514196==
Content-Type: text/x-shellscript-per-instance; name=pi

#!/bin/sh
:
--===============9206563154270514196==
Content-Type: text/x-shellscript-per-once; name="d/po"

#!/bin/sh
:
--===============9206563154270514196==
Content-Type: text/cloud-boothook
Content-Disposition: attachment; filename="part-008"

#cloud-boothook
#!/bin/sh
exit 0

--===============9206563154270514196==
Content-Type: text/foo
Content-Disposition: attachment; filename="part-009"

bar
--===============9206563154270514196==
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-010"

[
--===============9206563154270514196==
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="part-011"

- 1
--===============9206563154270514196==
Content-Type: text/cloud-config; name=x

merge_how: list(append
a: 1
--===============9206563154270514196==--
