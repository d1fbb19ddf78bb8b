//! Detects secrets in metadata, by name and by form: clouds add new keys, so no list of names is complete. Pure functions.

use serde_json::Value;

/// The longest name in a text.
const MAX_NAME_LENGTH: usize = 64;
/// The characters that end the host of a URL.
const URL_ENDS: [char; 3] = ['/', '?', '#'];
/// A name that ends in one of these, without separators, a plural's `s` and a number, names a secret.
#[rustfmt::skip]
const SECRET_SUFFIXES: &[&str] = &[
    "password", "passwd", "passphrase", "passcode", "pwd", "adminpass", "rootpass", "userpass", "secret", "token",
    "credential", "apikey", "psk", "otp", "bearer", "authorization", "cookie", "session", "sessionid", "signature", "seed",
    "rootpw", "adminpw", "userpw", "dbpass", "sshpass", "jwt", "sasurl", "connectionstring", "kubeconfig", "dockercfg", "dockerconfig", "dockerconfigjson", "userdata", "vendordata",
];
/// A name whose last word is one of these names a secret. Longer words end in them as well (`bypass`, `spin`).
const SECRET_WORDS: &[&str] = &["pass", "pin", "pw", "sig"];
/// Words that make a following `key` or `keys` a secret.
#[rustfmt::skip]
const SECRET_KEY_KINDS: &[&str] = &[
    "access", "account", "activation", "admin", "auth", "authentication", "authorization", "cert", "certificate", "client",
    "consumer", "decryption", "deploy", "encryption", "enrollment", "hmac", "license", "master", "preshared", "private",
    "registration", "secret", "service", "shared", "signing", "ssl", "storage", "tls", "validation", "wep", "wireguard", "wireless",
];
/// Words after the name of a secret that denote its encoding: the value is still secret.
const ENCODING_WORDS: &[&str] =
    &["b64", "base64", "data", "encoded", "encrypted", "hash", "hashed", "plain", "text", "value"];

/// Returns whether only root may read the value of `name`. Booleans and null are never secrets.
pub(crate) fn is_secret(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::String(text) => has_secret_name(name) || is_secret_text(text),
        _ => has_secret_name(name),
    }
}

fn has_secret_name(name: &str) -> bool {
    let mut words = words(name);
    loop {
        if is_secret_word(&words) {
            return true;
        }
        // `password_hash` is as secret as `password`; `user_data` itself is a secret's name.
        match words.last() {
            Some(last) if words.len() > 1 && ENCODING_WORDS.contains(&last.as_str()) => drop(words.pop()),
            _ => return false,
        }
    }
}

fn is_secret_word(words: &[String]) -> bool {
    let [before @ .., last] = words else { return false };
    // A private key, but not a private address.
    if !before.is_empty() && last == "private" {
        return true;
    }
    let is_digit = |c: char| c.is_ascii_digit();
    if SECRET_WORDS.contains(&last.trim_end_matches(is_digit)) {
        return true;
    }
    let joined = words.concat();
    let joined = joined.trim_end_matches(is_digit);
    let singular = joined.strip_suffix('s').unwrap_or(joined);
    if SECRET_SUFFIXES.iter().any(|end| joined.ends_with(end) || singular.ends_with(end)) {
        return true;
    }
    // `privatekey`, `private_key` and `ssh_private_keys`, but not `public_key`, `key` or `key_name`.
    singular.strip_suffix("key").is_some_and(|kind| {
        !kind.contains("public") && SECRET_KEY_KINDS.iter().any(|private| kind.ends_with(private))
    })
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

/// Returns whether text contains a private key, a URL with a password, or a secret with its name (`password=x`, `"pin": 1`).
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
        || has_secret_assignment(text)
        || text.lines().any(is_setting)
        || text.split("://").skip(1).any(has_password)
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

fn is_secret_setting(name: &str) -> bool {
    name.len() <= MAX_NAME_LENGTH && has_secret_name(name)
}

fn has_secret_assignment(text: &str) -> bool {
    let mut parts = text.split_inclusive(['=', ':']).peekable();
    while let (Some(part), Some(value)) = (parts.next(), parts.peek()) {
        let value = value.trim_end_matches(['=', ':']);
        let before = part.trim_end_matches(['=', ':']);
        let named = before.trim_end_matches(|c: char| c.is_whitespace() || "'\"\\".contains(c));
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
             wireless_key sas_url sasUrl"
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
             _beta_keys"
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
        ] {
            assert!(!is_secret("x", &json!(text)), "{text}");
        }
    }
}
