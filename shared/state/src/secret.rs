//! Detects secrets in metadata, by name and by form: clouds add new keys, so no list of names is complete. Pure functions. The lists
//! are words in one string (docs/small-binaries.md, "Code").

use serde_json::Value;

/// The longest name in a text.
const MAX_NAME_LENGTH: usize = 64;
/// The characters that end the host of a URL.
const URL_ENDS: [char; 3] = ['/', '?', '#'];
/// A word, or several, that end in one of these, without separators, a plural's `s` and a number, name a secret.
const SECRET_SUFFIXES: &str = "\
    password passwd passphrase passcode pwd adminpass rootpass userpass secret secretid token credential apikey psk bearer \
    authorization basicauth cookie session sessionid signature seed rootpw adminpw userpw dbpass sshpass pgpass jwt sasurl \
    connectionstring connstring connstr snmpcommunity communitystring keypass storepass dbpw \
    pwhash webhook webhookurl kubeconfig dockercfg dockerconfig dockerconfigjson \
    userdata vendordata accesscode activationcode authcode backupcode mfacode recoverycode securitycode unlockcode \
    verificationcode idrsa iddsa idecdsa ided25519 rsaprivate dsaprivate ecdsaprivate ed25519private";
/// Words that name a secret. Longer words end in them as well (`bypass`, `spin`, `bootp`).
const SECRET_WORDS: &str = "pass pin puk pw sig otp hotp totp cred creds sas pat netrc keytab pfx p12 pkcs12";
/// Words that make a following `key` or `keys` a secret.
const SECRET_KEY_KINDS: &str = "\
    access account activation admin app auth authentication authorization cert certificate client consumer decryption \
    deploy enc encryption enrollment gossip hmac jwt licence license luks master preshared priv private product recovery \
    registration secret server service session shared signing ssl storage tls tsig unlock unseal validation wep wg \
    wireguard wireless";
/// A name that has a secret's name before one of these is about the secret: `token_ttl`. With other words it is one of several secrets:
/// `token_prod`.
const HARMLESS_WORDS: &str = "\
    address age algorithm arn attempt authentication class count date day description dir directory domain enabled \
    encoding endpoint expiration expires expiry file filename fingerprint format from header host hour id interval kind \
    label length lifetime limit location manager method minute mode name namespace node option path policy port provider \
    pub public region required retries role rotation scope second server size source state status support through time \
    timeout timestamp ttl type uri url uuid validity version zone";
/// What the passwords of crypt(3) begin with.
const CRYPT_PREFIXES: &str = "$1$ $2a$ $2b$ $2y$ $5$ $6$ $7$ $y$ $gy$";
/// What tokens of well-known services begin with.
const TOKEN_PREFIXES: &str =
    "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xoxb- xoxp- sk_live_ hvs. dckr_pat_ dop_v1_";
/// The fewest characters of such a token after its prefix.
const MIN_TOKEN_LENGTH: usize = 16;

/// Returns whether only root may read the value of `name`. Booleans and null are never secrets.
pub(crate) fn is_secret(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::String(text) => has_secret_name(name) || is_secret_text(text),
        _ => has_secret_name(name),
    }
}

/// Returns whether a name says that its value is a secret: `adminPass`, `wpa-psk`, `wep-key0`.
pub fn has_secret_name(name: &str) -> bool {
    let words = words(name);
    // A private key, but not a private address.
    if words.len() > 1 && words.last().is_some_and(|last| last == "private") {
        return true;
    }
    let is_number = |word: &String| word.bytes().all(|b| b.is_ascii_digit());
    let last = words.iter().rfind(|word| !is_number(word)).map_or("", |word| word.trim_end_matches(is_digit));
    let is_harmless = || has(HARMLESS_WORDS, last) || has(HARMLESS_WORDS, singular(last));
    let mut joined = String::new();
    let is_secret = |(i, word): (usize, &String)| {
        joined += word;
        let is_end = i + 1 == words.len();
        is_secret_word(&joined, word) && (is_end || !is_harmless())
    };
    words.iter().enumerate().any(is_secret)
}

/// Returns the words of a list. Each name in the metadata is compared with all, and a search for a character costs more.
fn entries(list: &str) -> impl Iterator<Item = &[u8]> {
    list.as_bytes().split(|byte| *byte == b' ')
}

/// Returns whether a list has a word.
fn has(list: &str, word: &str) -> bool {
    entries(list).any(|known| known == word.as_bytes())
}

/// Returns whether a text ends in a word of a list.
fn ends_in(text: &str, list: &str) -> bool {
    entries(list).any(|end| text.as_bytes().ends_with(end))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

fn singular(word: &str) -> &str {
    word.strip_suffix('s').unwrap_or(word)
}

/// Returns whether words, joined, name a secret. `last` is the last of them.
fn is_secret_word(joined: &str, last: &str) -> bool {
    let (last, numbered) = (last.trim_end_matches(is_digit), last);
    if has(SECRET_WORDS, last) || last != numbered && has(SECRET_WORDS, numbered) {
        return true;
    }
    // A name may have very many words.
    let joined = &joined[joined.ceil_char_boundary(joined.len().saturating_sub(MAX_NAME_LENGTH))..];
    let bare = joined.trim_end_matches(is_digit);
    let bare = bare.strip_suffix("hash").unwrap_or(bare);
    let one = singular(bare);
    let (is_bare, is_one) = (joined == bare, bare == one);
    if ends_in(joined, SECRET_SUFFIXES)
        || !is_bare && ends_in(bare, SECRET_SUFFIXES)
        || !is_one && ends_in(one, SECRET_SUFFIXES)
    {
        return true;
    }
    // `privatekey`, `private_key` and `ssh_private_keys`, but not `public_key`, `key` or `key_name`.
    one.strip_suffix("key").is_some_and(|kind| !kind.contains("public") && ends_in(kind, SECRET_KEY_KINDS))
}

/// Returns the words of a name in lower case: `adminPass`, `admin-pass` and `ADMIN_PASS` have two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_alphanumeric() {
            before = ' ';
            continue;
        }
        let begins = before == ' ' || (c.is_uppercase() && before.is_lowercase());
        match words.last_mut() {
            Some(word) if !begins => word.extend(c.to_lowercase()),
            _ => words.push(c.to_lowercase().collect()),
        }
        before = c;
    }
    words
}

/// Returns whether text contains a private key, a token, a password's hash, a URL with a password, or a secret with its name
/// (`password=x`, `"pin": 1`, `--token x`, `<password>x`).
fn is_secret_text(text: &str) -> bool {
    let has_password = |rest: &str| {
        let url = rest.split(|c: char| c.is_whitespace() || c == '"').next().unwrap_or_default();
        let login = url.rsplit_once('@').and_then(|(login, _)| login.split_once(':'));
        login.is_some_and(|(user, password)| {
            // A password may contain the characters that end a host, but `h:80/a@b` has a port and a path.
            let is_password = |end: usize| {
                let head = &password[..end];
                head.contains('@') || !(user.contains(['@', '[']) || head.bytes().all(|b| b.is_ascii_digit()))
            };
            !user.contains(URL_ENDS) && password.find(URL_ENDS).is_none_or(is_password)
        })
    };
    // A line of an interfaces file: `wpa-psk x y`. Without a separator in the name it may be a title: `Session host`.
    let is_setting = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|name| name.contains(['-', '_']) && name.chars().all(is_name_char));
        name.is_some_and(is_secret_setting) && words.next().is_some_and(|value| value != "=")
    };
    text.contains("PRIVATE KEY-----")
        || text.contains("AGE-SECRET-KEY-1")
        || has_secret_assignment(text)
        || has_secret_argument(text)
        || text.split(|c: char| c.is_whitespace() || "'\"=:,;()<>".contains(c)).any(is_token_or_hash)
        || text.split('<').skip(1).any(is_secret_element)
        || text.lines().any(is_setting)
        || text.split("://").skip(1).any(has_password)
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

fn is_secret_setting(name: &str) -> bool {
    name.len() <= MAX_NAME_LENGTH && has_secret_name(name)
}

/// Returns whether words have a secret after its name: `--token x`, `Bearer x`, `sshpass -p x`, `login a password x` of netrc(5).
fn has_secret_argument(text: &str) -> bool {
    let mut before = ["", "", ""];
    for word in text.split_whitespace() {
        let [login, program, name] = before.map(|word| word.trim_start_matches(['"', '\'']));
        let has_value = match name {
            "Bearer" => true,
            "-p" => program == "sshpass" || program.ends_with("/sshpass"),
            "password" => login == "login",
            _ => name.strip_prefix("--").is_some_and(is_secret_setting),
        };
        if has_value && !word.starts_with('-') {
            return true;
        }
        before = [before[1], before[2], word];
    }
    false
}

/// Returns whether a word is a token of a well-known form or a hash of crypt(3).
fn is_token_or_hash(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_token = |prefix: &str| {
        let rest = word.strip_prefix(prefix).unwrap_or_default();
        rest.len() >= MIN_TOKEN_LENGTH && rest.chars().all(is_part)
    };
    let is_jwt = || {
        let parts = word.starts_with("eyJ").then(|| word.splitn(4, '.').collect::<Vec<_>>());
        parts.is_some_and(|parts| parts.len() == 3 && parts.iter().all(|part| part.chars().all(is_part)))
    };
    let is_hash = |prefix: &str| {
        let salt_and_hash = word.strip_prefix(prefix).and_then(|rest| rest.split_once('$'));
        salt_and_hash.is_some_and(|(_, hash)| !hash.is_empty())
    };
    TOKEN_PREFIXES.split(' ').any(is_token) || is_jwt() || CRYPT_PREFIXES.split(' ').any(is_hash)
}

/// Returns whether what follows a `<` is an element with a secret's name and a text.
fn is_secret_element(element: &str) -> bool {
    let Some((tag, content)) = element.split_once('>') else { return false };
    let name = tag.split_whitespace().next().unwrap_or_default();
    !content.trim().is_empty() && !tag.ends_with('/') && is_secret_setting(name)
}

fn has_secret_assignment(text: &str) -> bool {
    // An assignment of make(1) or Go.
    let text = text.replace(":=", "=");
    let mut parts = text.split_inclusive(['=', ':']).peekable();
    while let (Some(part), Some(value)) = (parts.next(), parts.peek()) {
        let value = value.trim_end_matches(['=', ':']);
        let before = part.trim_end_matches(['=', ':']);
        let named = before.trim_end_matches(|c: char| c.is_whitespace() || "'\"\\?+".contains(c));
        let name = &named[named.trim_end_matches(is_name_char).len()..];
        // A colon alone is part of a host, an image or an identifier as well: `session:8080`.
        let is_assignment = part.ends_with('=')
            || before[named.len()..].contains(['\'', '"'])
            || value.starts_with(|c: char| c.is_whitespace() || c == '\'' || c == '"');
        // base64 ends in `=` as well.
        if is_assignment && !value.trim_start().is_empty() && is_secret_setting(name) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_recognised_by_name_or_value() {
        for name in "password PASSWORD admin_pass adminPass admin-pass adminpass rootPassword root_passwd \
             windows_password plain_text_passwd hashed_passwd password_hash passwordHash passwd_b64 \
             user_token token x-auth-token authToken tokens client_secret secret secrets consumer_secret \
             token_secret secretValue SecretAccessKey private_key privateKey privatekey rsa_private \
             ssh_host_ed25519_private api_key apikey X-API-Key auth_key access_key storage_account_key \
             encryption-key registration_key activation_key wifi_psk db_pwd passphrase credentials \
             security_credential cloud-init.user-data user.vendor-data cloud-init.vendor-data2 \
             shared_keys license_key token2 password1 pwd psk pin pin2 pass connection_string connectionStrings \
             bearer bearerToken authorization cert_key tlsKey kubeconfig kube_config kubeconfig_b64 dockercfg \
             .dockerconfigjson cookie cookies session session_id sessionId signature X-Amz-Signature otp totp \
             seed random_seed root_pw rootpw adminpw userpw dbpass sshpass sig X-Sig jwt id_jwt wep_key wep-key0 \
             wireless_key sas_url sasUrl password_prod password_old secret_prod secret_v1 token_v2 token-prod \
             api_key_prod passwords_map user_password_list deploy_token_user SECRET_KEY_BASE \
             ConnectionString_primary conn_str priv_key privkey id_rsa id_ed25519 session_key jwt_key app_key \
             luks_key recovery_key unseal_key tsig_key gossip_key server.key pin_code mfa_code \
             activation_code creds basic_auth pwdhash psk_hex sas github_pat snmp_community pgpass netrc pfx p12 \
             rsa_private_pem secret_id token_prod_2 keypass storePass dbpw pwhash webhook slack_webhook_url puk encKey licence_key product_key \
             unlock_key wg_key"
            .split(' ')
        {
            assert!(is_secret(name, &json!("s")), "{name}");
            assert!(is_secret(name, &json!(["s"])) && is_secret(name, &json!({"a": 1})), "{name}");
            assert!(!is_secret(name, &json!(true)) && !is_secret(name, &Value::Null), "{name}");
        }
        for text in [
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl",
            "http://user:word@proxy:3128/",
            " https://:token@example.com",
            "Server=h;Password=x",
            "a b --admin-password = x",
            "http://h/x?X-Amz-Signature=x",
            "KUBELET_CA: x\nKUBELET_TOKEN: x\n",
            "iface wlan0 inet dhcp\n  wpa-psk x\n",
            "iface wlan0 inet dhcp\n  wpa-psk x y z\n",
            "wep-key0 x",
            "wireless-key s:x restricted",
            "{\"password\":\"x\"}",
            "{'pin':1}",
            r#"{\"password\":\"x\"}"#,
            "password:\"x\"",
            "password:\n  x",
            "http://h/x?sp=r&sig=x",
            "http://user:pa/ss@proxy:3128/",
            "http://user:p#w@proxy/",
            "http://a@b:word@proxy/x@y",
            "http://user:1@proxy/x@y",
            "{\"a\": 1, \"password\" : \"x\"}",
            "proxies: http://a,https://user:word@proxy",
            "Bearer x",
            "curl -H 'X-A: Bearer x' h",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "kubeadm join h --token x --discovery-token-ca-cert-hash sha256:1",
            "machine h login u password x",
            "<user><password>x</password></user>",
            "$6$salt$x",
            "root:$2b$10$x$y",
            "sshpass -p x ssh h",
            "PASSWORD := x",
            "PASSWORD ?= x",
            "password => x",
            "AGE-SECRET-KEY-1QQ",
            "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
        ] {
            assert!(is_secret("x", &json!(text)), "{text}");
        }
    }

    #[test]
    fn public_keys_and_urls_are_not_secrets() {
        for name in
            "public_keys public-keys public_ssh_keys publicKey ssh_public_key key keys key_name keyname \
             keypair ssh_keys ssh_authorized_keys host_key primary_key name hostname instance_id \
             local-hostname region token_ttl token_url secret_name password_policy \
             password_authentication passthrough bypass compass lock_passwd_age ssh_pwauth pinned spin \
             pinning opinion keypin keyboard session_timeout cookie_policy signature_algorithm seeded seed_dir \
             seedfrom notary connection strings config certificate private private_ipv4 private-ip privateIpAddress data hash value text metadata network_data \
             monkey turkey hotkey tokenizer services_keymap user base64_encoded_keys sensitive_keys \
             _beta_keys token_ttl_seconds X-aws-ec2-metadata-token-ttl-seconds token_type access_key_id \
             secret_name_1 secretUrl disablePasswordAuthentication seed_nodes bootp bootp_server id_rsa_pub \
             id_rsa.pub countrycode status_code pass_through tls_key_path provided local_private_ipv4 private_ip_1 sas_address \
             host-key-service user-data-encoding map_key session_timeouts"
                .split(' ')
                .chain([""])
        {
            assert!(!is_secret(name, &json!("s")), "{name}");
        }
        for text in [
            "http://h/a@b:c",
            "ssh-ed25519 AAAA a@b",
            "user@host:path",
            "http://user@host/",
            "a://b c:d",
            "password=",
            "password = ",
            "token_ttl=3",
            "console=ttyS0 ds=nocloud",
            "cGlu=",
            "the password is x",
            "Seed Node",
            "Session host",
            "PIN pad",
            "tcp://my-session:8080 x",
            "arn:aws:secretsmanager:r:1:secret:prod/db",
            "ghcr.io/org/vault-token:1.2",
            "tcp://session:8080",
            "http://auth-token:9000/",
            "seed:7000",
            "ds=nocloud;seed:x",
            "http://h:80/a@b",
            "http://[::1]/a@b",
            "ssh://git@h:org/a@b",
            "http://h?a:b@c",
            "{\"a\":\"http://h:x\",\"b\":\"c@d\"}",
            "ssh-rsa AAAA root@password",
            "ssh -p 22 h",
            "login with your password",
            "login with the password of x",
            "run --token-ttl 3 --verbose",
            "run --token --verbose",
            "echo $1 $2",
            "price $5",
            "<password/> <password></password> <name>x</name>",
            "eyJ.x",
            "hvs.example.com",
            "Bearer",
        ] {
            assert!(!is_secret("x", &json!(text)), "{text}");
        }
    }
}
