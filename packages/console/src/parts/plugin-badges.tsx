/** Badges of packages and bindings. */
import type { Binding, CatalogStatus, Package } from "@backplane/contract";
import { Badge, type Tone } from "./badge.tsx";
import type { IconName } from "./icon.tsx";

type BadgeStyle = { tone: Tone; icon: IconName; word: string };

/** The most important state of a binding. */
export function bindingState(binding: Binding): BadgeStyle {
  const { status, unbound_slots, held_upgrade, rollback_failed, trial, policy } = binding;
  if (status === "disabled") return { tone: "quiet", icon: "pause", word: "Disabled" };
  if (unbound_slots.length > 0) return { tone: "warn", icon: "secret", word: "Needs a secret" };
  if (status === "inactive") return { tone: "warn", icon: "alert", word: "Inactive" };
  if (rollback_failed !== undefined) return { tone: "bad", icon: "octagon", word: "Rollback failed" };
  if (held_upgrade !== undefined) return { tone: "warn", icon: "clock", word: "Upgrade waits" };
  if (policy.deliveries?.paused === true) return { tone: "warn", icon: "pause", word: "Paused" };
  if (trial !== undefined) return { tone: "info", icon: "clock", word: "On trial" };
  return { tone: "good", icon: "check", word: "Active" };
}

export function BindingBadge({ binding }: { binding: Binding }) {
  const { tone, icon, word } = bindingState(binding);
  return (
    <Badge tone={tone} icon={icon}>
      {word}
    </Badge>
  );
}

const SIGNATURES: Record<NonNullable<Package["signature"]>["state"], BadgeStyle> = {
  verified: { tone: "good", icon: "approval", word: "Signed" },
  revoked: { tone: "bad", icon: "octagon", word: "Key revoked" },
  expired: { tone: "warn", icon: "clock", word: "Key expired" },
  unverified: { tone: "warn", icon: "question", word: "Not verified" },
  unsigned: { tone: "quiet", icon: "shield", word: "Unsigned" },
};

export function SignatureBadge({ signature }: Pick<Package, "signature">) {
  const { tone, icon, word } = SIGNATURES[signature?.state ?? "unsigned"];
  return (
    <Badge tone={tone} icon={icon}>
      {word}
    </Badge>
  );
}

const CATALOG: Record<CatalogStatus, BadgeStyle> = {
  offered: { tone: "good", icon: "check", word: "Offered" },
  hidden: { tone: "quiet", icon: "shield", word: "Hidden" },
  skipped: { tone: "warn", icon: "alert", word: "Name taken" },
  failed: { tone: "bad", icon: "octagon", word: "Name conflict" },
  held: { tone: "warn", icon: "clock", word: "Awaits review" },
  inactive: { tone: "quiet", icon: "pause", word: "Inactive" },
};

export function CatalogBadge({ status }: { status: CatalogStatus }) {
  const { tone, icon, word } = CATALOG[status];
  return (
    <Badge tone={tone} icon={icon}>
      {word}
    </Badge>
  );
}
