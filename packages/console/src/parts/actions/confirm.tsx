import { Button, Group, Modal } from "@mantine/core";
import type { ReactNode } from "react";

export interface ConfirmProps {
  opened: boolean;
  title: string;
  /** The explanation: what will happen, and whether it can be undone. */
  children: ReactNode;
  /** The verb on the button: "Remove", not "OK". */
  action: string;
  danger?: boolean;
  busy?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** Asks for confirmation before an action. The focus starts on Cancel. */
export function Confirm(props: ConfirmProps) {
  const { opened, title, children, action, danger = false, busy = false, onConfirm, onClose } = props;
  return (
    <Modal opened={opened} onClose={onClose} title={title} closeButtonProps={{ "aria-label": "Close" }}>
      {children}
      <Group justify="flex-end" mt="lg" gap="xs">
        <Button variant="default" onClick={onClose} data-autofocus>
          Cancel
        </Button>
        <Button color={danger ? "red.8" : undefined} loading={busy} onClick={onConfirm}>
          {action}
        </Button>
      </Group>
    </Modal>
  );
}
