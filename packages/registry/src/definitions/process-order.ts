/** What names the process of a described binding to the runner: the same one that the calls of its tools get. */
import type { BoundPackage, DescribeOrder, KernelDeps, Scope } from "@backplane/ports";
import { poolKey } from "../exports/export-plan.ts";
import { combineTools } from "../exports/whole-package.ts";
import { standingLevel, toGrant, withSecretEnv } from "../grant/effective.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import { intersect } from "../grant/intersect.ts";
import type { Policies } from "../policy/policies.ts";
import type { SignInTokens } from "../secrets/sign-in-tokens.ts";

export type ProcessOrder = Omit<DescribeOrder, "timeout_ms">;

/** Without its secrets, which are read for each question. */
export async function createProcessOrder(
  deps: Pick<KernelDeps, "host">,
  policies: Pick<Policies, "of">,
  bound: BoundPackage,
  scope: Scope,
): Promise<ProcessOrder> {
  const { binding, package: pack } = bound;
  const item = combineTools(pack)!;
  const level = standingLevel(
    { binding, package: pack, export: item },
    effectiveClass(binding, item),
    scope,
    deps.host,
  );
  // The policy's host level holds here as for any call.
  const { ceiling } = await policies.of(scope);
  const met = ceiling === undefined ? level : intersect(level, ceiling);
  const grant = withSecretEnv(toGrant(met), binding.policy);
  const { package_id, version, digest, manifest } = pack;
  return {
    package: { package_id, version, digest, runtime: manifest.runtime },
    binding_id: binding.binding_id,
    pool_key: poolKey({ binding, package: pack }, scope, grant),
    grant,
    class: grant.class,
    context: {
      org_id: scope.org_id,
      ...(scope.project_id === null ? {} : { project_id: scope.project_id }),
      config: binding.config,
      secrets: {},
      grant,
    },
  };
}

/** Asks with the binding's secrets, again where its sign-in has a newer token than the server was shown. */
export async function sendProcessRequest<T>(
  tokens: SignInTokens,
  bound: BoundPackage,
  order: ProcessOrder,
  ask: (order: ProcessOrder) => Promise<T>,
): Promise<T> {
  return await tokens.sendWithSecrets(bound, order.grant, (secrets) =>
    ask({ ...order, context: { ...order.context, secrets } }),
  );
}
