/** What a person approved: the digest of everything that decides what the call does, and of each part by its name. */

/** Digests by the name of the part, as an approver is told it: `config.region`, `secret.token`. */
export type CoveredParts = Readonly<Record<string, string>>;

export interface Coverage {
  digest: string;
  parts: CoveredParts;
}
