/** Badges of packages, bindings and tools. */
import type { Binding, CatalogStatus, Package } from "@backplane/contract";
import type { IconName } from "../layout/icon.tsx";
import { Badge, type Tone } from "./badge.tsx";

type BadgeStyle = { tone: Tone; icon: IconName; label: string };

/** The most important state of a binding. */
export function bindingState(binding: Binding): BadgeStyle {
  const { status, unbound_slots, held_upgrade, rollback_failed, trial, policy } = binding;
  if (status === "disabled") return { tone: "quiet", icon: "pause", label: "Disabled" };
  if (unbound_slots.length > 0) return { tone: "warn", icon: "secret", label: "Needs a secret" };
  if (status === "inactive") return { tone: "warn", icon: "alert", label: "Inactive" };
  if (rollback_failed !== undefined) return { tone: "bad", icon: "octagon", label: "Rollback failed" };
  if (held_upgrade !== undefined) return { tone: "warn", icon: "clock", label: "Upgrade pending" };
  if (policy.deliveries?.paused === true) return { tone: "warn", icon: "pause", label: "Paused" };
  if (trial !== undefined) return { tone: "info", icon: "clock", label: "On trial" };
  return { tone: "good", icon: "check", label: "Active" };
}

export function BindingBadge({ binding }: { binding: Binding }) {
  const { tone, icon, label } = bindingState(binding);
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}

const SIGNATURES: Record<NonNullable<Package["signature"]>["state"], BadgeStyle> = {
  verified: { tone: "good", icon: "approval", label: "Signed" },
  revoked: { tone: "bad", icon: "octagon", label: "Key revoked" },
  expired: { tone: "warn", icon: "clock", label: "Key expired" },
  unverified: { tone: "warn", icon: "question", label: "Not verified" },
  unsigned: { tone: "quiet", icon: "shield", label: "Unsigned" },
};

export function SignatureBadge({ signature }: Pick<Package, "signature">) {
  const { tone, icon, label } = SIGNATURES[signature?.state ?? "unsigned"];
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}

const CATALOG: Record<CatalogStatus, BadgeStyle> = {
  offered: { tone: "good", icon: "check", label: "Offered" },
  hidden: { tone: "quiet", icon: "shield", label: "Hidden" },
  skipped: { tone: "warn", icon: "alert", label: "Name taken" },
  failed: { tone: "bad", icon: "octagon", label: "Name conflict" },
  held: { tone: "warn", icon: "clock", label: "Awaits review" },
  inactive: { tone: "quiet", icon: "pause", label: "Inactive" },
};

export function CatalogBadge({ status }: { status: CatalogStatus }) {
  const { tone, icon, label } = CATALOG[status];
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}
