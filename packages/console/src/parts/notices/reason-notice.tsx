import { CliCommand } from "../values/cli-command.tsx";
import { Notice, type NoticeProps } from "./notice.tsx";

export interface ReasonNoticeProps {
  tone: NoticeProps["tone"];
  /** A sentence from the gateway. It can begin in lower case, and it has no period. */
  reason: string;
  /** The fix: a sentence or a command. */
  fix: string | null;
}

/** Shows why something is not available, and the fix. */
export function ReasonNotice({ tone, reason, fix }: ReasonNoticeProps) {
  return (
    <Notice tone={tone} title={reason.charAt(0).toUpperCase() + reason.slice(1)}>
      {fix !== null && (fix.startsWith("backplane ") ? <CliCommand command={fix} /> : <p>{fix}</p>)}
    </Notice>
  );
}
