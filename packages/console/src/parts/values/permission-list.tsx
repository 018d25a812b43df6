/** The permissions of a plugin, one sentence for each, with the author's reason beside it. */
import { type Grant, type Permissions, permissionDetails } from "@backplane/contract";
import { Icon, type IconName } from "../layout/icon.tsx";
import styles from "../styles/layout.module.css";

export function PermissionList({ permissions }: { permissions: Permissions }) {
  return (
    <ul className={styles.sentences}>
      {permissionDetails(permissions).map(({ permission, sentence, granted, reasons }) => (
        <Sentence key={permission} tone={granted ? "warn" : "good"} icon={granted ? "alert" : "shield"}>
          {sentence}
          {granted &&
            reasons.map((reason) => (
              <span key={reason} className={styles.reason}>
                The author's reason: {reason}
              </span>
            ))}
        </Sentence>
      ))}
    </ul>
  );
}

const CLASSES: Record<Grant["class"], string> = {
  isolated: "Each call runs in its own sandbox.",
  worker: "Calls share a sandboxed process.",
  inline: "Calls run inside the gateway, without a sandbox.",
};

/** The permissions that a call gets after policy, binding and host have narrowed the author's request. */
export function GrantList({ grant }: { grant: Grant }) {
  const { mounts, capabilities, host } = grant;
  return (
    <ul className={styles.sentences}>
      <Sentence
        tone={grant.class === "inline" ? "bad" : "good"}
        icon={grant.class === "inline" ? "octagon" : "shield"}
      >
        {CLASSES[grant.class]}
      </Sentence>
      {permissionDetails(grant).map(({ permission, sentence, granted }) => (
        <Sentence key={permission} tone={granted ? "warn" : "good"} icon={granted ? "alert" : "shield"}>
          {sentence}
        </Sentence>
      ))}
      {mounts.map(({ source, target, writable }) => (
        <Sentence key={target} tone={writable ? "bad" : "warn"} icon="alert">
          {writable ? "It can read and write" : "It can read"} the folder {source} as {target}.
        </Sentence>
      ))}
      {capabilities.length > 0 && (
        <Sentence tone="warn" icon="alert">
          It may use the capabilities {capabilities.join(", ")}.
        </Sentence>
      )}
      {host === true && (
        <Sentence tone="bad" icon="octagon">
          Tools that request the host run on the gateway's machine, without a sandbox.
        </Sentence>
      )}
    </ul>
  );
}

export interface SentenceProps {
  tone: "good" | "warn" | "bad" | "info" | "quiet";
  icon: IconName;
  children: React.ReactNode;
}

/** An item of a list of sentences. */
export function Sentence({ tone, icon, children }: SentenceProps) {
  return (
    <li className={styles.sentence} style={{ "--sentence-color": `var(--${tone})` } as object}>
      <Icon name={icon} size={16} />
      <span>{children}</span>
    </li>
  );
}
