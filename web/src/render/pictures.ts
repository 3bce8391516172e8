/** Pictures of agents and users: only formats without script, their size read before they load. */

const TYPES = /^image\/(?:png|jpeg|gif|webp)$/;

export function isPicture(mimeType: string): boolean {
  return TYPES.test(mimeType);
}

export interface Size {
  width: number;
  height: number;
}

/** Return the address of a picture in Base64, or null if it is not one. */
export function dataAddress(mimeType: string, data: string): string | null {
  return isPicture(mimeType) && /^[\w+/=\s]+$/.test(data) ? `data:${mimeType};base64,${data}` : null;
}

/** Return the size that the first bytes name, so that its place is kept free. */
export function sizeOf(data: string): Size | null {
  let bytes: Uint8Array;
  try {
    bytes = Uint8Array.from(atob(data.slice(0, 65_536).replace(/[^\w+/]/g, "").replace(/^((?:.{4})*).{0,3}$/, "$1")), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
  if (bytes.length < 30) return null;
  const view = new DataView(bytes.buffer);
  const size = (width: number, height: number): Size | null => (width > 0 && height > 0 ? { width, height } : null);
  const text = (from: number, to: number): string => String.fromCharCode(...bytes.subarray(from, to));
  if (view.getUint32(0) === 0x89504e47) return size(view.getUint32(16), view.getUint32(20));
  if (text(0, 3) === "GIF") return size(view.getUint16(6, true), view.getUint16(8, true));
  if (text(0, 4) === "RIFF" && text(8, 12) === "WEBP") {
    if (text(12, 16) === "VP8X") return size(1 + (view.getUint32(24, true) & 0xffffff), 1 + (view.getUint32(26, true) >>> 8));
    if (text(12, 16) === "VP8 ") return size(view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff);
    const bits = view.getUint32(21, true);
    return size(1 + (bits & 0x3fff), 1 + ((bits >>> 14) & 0x3fff));
  }
  if (view.getUint16(0) !== 0xffd8) return null;
  for (let at = 2; at + 9 < bytes.length; ) {
    const mark = view.getUint16(at);
    const isFrame = mark >= 0xffc0 && mark <= 0xffcf && mark !== 0xffc4 && mark !== 0xffc8 && mark !== 0xffcc;
    if (isFrame) return size(view.getUint16(at + 7), view.getUint16(at + 5));
    if (mark < 0xff00) return null;
    at += 2 + view.getUint16(at + 2);
  }
  return null;
}
