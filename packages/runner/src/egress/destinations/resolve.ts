/**
 * Resolves names outside the sandbox. Names that the operator did not allow are resolved by c-ares instead of
 * getaddrinfo, so that no search domain is appended and slow names cannot block the threads that read the gateway's
 * files.
 */
import { Resolver as Ares, lookup } from "node:dns/promises";

/** Returns all addresses of the name; throws if there is none. `trusted` means that the operator allows the name. */
export type Resolver = (name: string, trusted: boolean) => Promise<string[]>;

export function systemResolver(timeout_ms: number): Resolver {
  const resolver = new Ares({ timeout: Math.ceil(timeout_ms / 2), tries: 2 });
  return async (name, trusted) => {
    if (trusted) {
      // An operator's host may exist in /etc/hosts only.
      const addresses = await lookup(name, { all: true, verbatim: true });
      return addresses.map(({ address }) => address);
    }
    const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const addresses = [four, six].flatMap((result) => (result.status === "fulfilled" ? result.value : []));
    if (addresses.length === 0) throw (four as PromiseRejectedResult).reason;
    return addresses;
  };
}
