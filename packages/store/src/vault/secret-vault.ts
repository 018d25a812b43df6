/**
 * Encrypts secret values at rest: AES-256-GCM with a key derived with HKDF-SHA256 from a master key. The text is
 * `v1.KEY_ID.NONCE.SEALED`. The org and the name are authenticated too, so a value that was moved to another row cannot
 * be opened. The newest key seals and every key opens, so keys are rotated by adding a new one. A key is stored before
 * it seals anything. An unknown key id is looked up in the key file again, since another process may have added it.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { BackplaneError } from "@backplane/contract";
import type { SecretVault } from "@backplane/ports";

export interface VaultKey {
  id: string;
  /** 32 bytes. */
  key: Uint8Array;
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
const RELOAD_MS = 1_000;

/** Stores the keys. Without a key file the given keys are the only ones. */
export interface KeyFile {
  /** Newest first. */
  read(): readonly VaultKey[];
  /** Adds the newest key. It is on disk when this returns. */
  append(key: VaultKey): void;
}

/** `initial_keys` is sorted, newest key first. */
export function createSecretVault(initial_keys: readonly VaultKey[], file?: KeyFile): SecretVault {
  let derived = deriveAll(initial_keys);
  let [newest] = derived.keys();
  let reloaded = Number.NEGATIVE_INFINITY;

  /** Reads the key file at most once a second, so that values with a lost key do not cost a read each. */
  function findKey(id: string): Buffer | undefined {
    if (derived.has(id) || file === undefined || performance.now() - reloaded < RELOAD_MS)
      return derived.get(id);
    reloaded = performance.now();
    derived = deriveAll(file.read());
    [newest] = derived.keys();
    return derived.get(id);
  }

  return {
    keys: () => [...derived.keys()].map((id) => ({ id, prefix: `v1.${id}.` })),
    addKey() {
      if (file === undefined) {
        throw new BackplaneError(
          "config.invalid",
          "The keys of this vault come from the configuration, so no key can be added.",
        );
      }
      file.append({ id: `k${randomBytes(6).toString("hex")}`, key: randomBytes(KEY_BYTES) });
      derived = deriveAll(file.read());
      [newest] = derived.keys();
    },
    seal(org_id, name, value) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", derived.get(newest!)!, nonce);
      cipher.setAAD(authenticatedData(newest!, org_id, name));
      const sealed = Buffer.concat([cipher.update(value, "utf8"), cipher.final(), cipher.getAuthTag()]);
      return `v1.${newest}.${nonce.toString("base64url")}.${sealed.toString("base64url")}`;
    },
    open(org_id, name, ciphertext) {
      const [version, id = "", nonce = "", text = ""] = ciphertext.split(".");
      const key = findKey(id);
      if (version !== "v1" || key === undefined) {
        throw unreadableError(`it was sealed with a key that is not configured (${id.slice(0, 64)})`);
      }
      const sealed = Buffer.from(text, "base64url");
      try {
        const decipher = createDecipheriv("aes-256-gcm", key, Buffer.from(nonce, "base64url"), {
          authTagLength: TAG_BYTES,
        });
        decipher.setAAD(authenticatedData(id, org_id, name));
        decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
        return Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()]).toString(
          "utf8",
        );
      } catch {
        throw unreadableError("it is damaged, or was sealed for another organization or name");
      }
    },
  };
}

/** Keys by id, in the given order. */
function deriveAll(keys: readonly VaultKey[]): Map<string, Buffer> {
  const derived = new Map(keys.map((key) => [key.id, derive(key)]));
  if (derived.size === 0 || derived.size !== keys.length) {
    throw new BackplaneError("config.invalid", "The vault needs at least one key, each with its own id.");
  }
  return derived;
}

function derive({ id, key }: VaultKey): Buffer {
  if (key.byteLength !== KEY_BYTES || !/^[A-Za-z0-9_-]{1,64}$/.test(id)) {
    throw new BackplaneError(
      "config.invalid",
      "A vault key must have 32 bytes and an id of letters, digits, _ and -.",
    );
  }
  return Buffer.from(hkdfSync("sha256", key, "backplane", "secret-vault v1", 32));
}

/** JSON, so that no two pairs of org and name have the same bytes. */
function authenticatedData(key_id: string, org_id: string, name: string): Buffer {
  return Buffer.from(JSON.stringify([key_id, org_id, name]), "utf8");
}

function unreadableError(reason: string): BackplaneError {
  return new BackplaneError("internal", `A stored secret cannot be opened: ${reason}.`, {
    retryable: false,
    fix: "Restore the master key that sealed it (secret.key), or store the secret again.",
  });
}
