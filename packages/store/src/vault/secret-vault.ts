/**
 * Secret values at rest: AES-256-GCM under a key derived with HKDF-SHA256 from a master key. The text is
 * `v1.KEY_ID.NONCE.SEALED`; org and name are authenticated with it, so a value moved to another row does not
 * open. The first key seals, every key opens: keys are rotated by putting a new one in front. A key is kept before
 * it seals anything, and one that another process has added is looked for before a text counts as unreadable.
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
const LOOK_MS = 1_000;

/** Where keys are kept; without it they are those given. */
export interface KeyFile {
  /** The newest first. */
  read(): readonly VaultKey[];
  /** Durable when it returns. */
  append(key: VaultKey): void;
}

/** The newest key comes first. */
export function createSecretVault(given: readonly VaultKey[], file?: KeyFile): SecretVault {
  let derived = deriveAll(given);
  let [newest] = derived.keys();
  let looked = Number.NEGATIVE_INFINITY;

  /** Another gateway on the same file may have added it. Not at every text: one that is lost would cost a read each. */
  function find(id: string): Buffer | undefined {
    if (derived.has(id) || file === undefined || performance.now() - looked < LOOK_MS) return derived.get(id);
    looked = performance.now();
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
          "The keys of this vault are given to it and cannot be added to.",
        );
      }
      file.append({ id: `k${randomBytes(6).toString("hex")}`, key: randomBytes(KEY_BYTES) });
      derived = deriveAll(file.read());
      [newest] = derived.keys();
    },
    seal(org_id, name, value) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", derived.get(newest!)!, nonce);
      cipher.setAAD(aad(newest!, org_id, name));
      const sealed = Buffer.concat([cipher.update(value, "utf8"), cipher.final(), cipher.getAuthTag()]);
      return `v1.${newest}.${nonce.toString("base64url")}.${sealed.toString("base64url")}`;
    },
    open(org_id, name, ciphertext) {
      const [version, id = "", nonce = "", text = ""] = ciphertext.split(".");
      const key = find(id);
      if (version !== "v1" || key === undefined) {
        throw unreadable(`it was sealed with a key that is not configured (${id.slice(0, 64)})`);
      }
      const sealed = Buffer.from(text, "base64url");
      try {
        const decipher = createDecipheriv("aes-256-gcm", key, Buffer.from(nonce, "base64url"), {
          authTagLength: TAG_BYTES,
        });
        decipher.setAAD(aad(id, org_id, name));
        decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
        return Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()]).toString(
          "utf8",
        );
      } catch {
        throw unreadable("its bytes are not what was sealed for this org and name");
      }
    },
  };
}

/** By id, in the order given. */
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
      "A vault key has 32 bytes and an id of letters, digits, _ and -.",
    );
  }
  return Buffer.from(hkdfSync("sha256", key, "backplane", "secret-vault v1", 32));
}

/** As JSON, so that no two pairs of org and name have the same bytes. */
function aad(key_id: string, org_id: string, name: string): Buffer {
  return Buffer.from(JSON.stringify([key_id, org_id, name]), "utf8");
}

function unreadable(why: string): BackplaneError {
  return new BackplaneError("internal", `A stored secret cannot be opened: ${why}.`, {
    retryable: false,
    fix: "Restore the master key that sealed it (secret.key), or store the secret again.",
  });
}
