Put settings of your own here, in files whose names end in ".cfg". They are YAML like ../cloud.cfg, are
read in the order of their names after it, and a later file's value replaces an earlier one's. Other
names are ignored. "cloud-init query merged_system_cfg" shows the result.
