/**
 * Names to addresses, outside the sandbox only. c-ares, not getaddrinfo: a plugin that asks for slow names must not
 * hold the few threads that serve the gateway's files, and no search domain may complete a name.
 */
import { Resolver as Ares, lookup } from "node:dns/promises";

/** Every address of the name; throws when there is none. `trusted`: named by the operator. */
export type Resolver = (name: string, trusted: boolean) => Promise<string[]>;

export function systemResolver(timeout_ms: number): Resolver {
  const ares = new Ares({ timeout: Math.ceil(timeout_ms / 2), tries: 2 });
  return async (name, trusted) => {
    if (trusted) {
      // An operator's host may be known to /etc/hosts alone.
      const found = await lookup(name, { all: true, verbatim: true });
      return found.map(({ address }) => address);
    }
    const [four, six] = await Promise.allSettled([ares.resolve4(name), ares.resolve6(name)]);
    const addresses = [four, six].flatMap((found) => (found.status === "fulfilled" ? found.value : []));
    if (addresses.length === 0) throw (four as PromiseRejectedResult).reason;
    return addresses;
  };
}
