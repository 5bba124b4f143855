-- Wireshark's dissector of weft: the headers of every datagram, as docs/protocol.md describes them.
--
-- It recognises weft by the content of UDP datagrams, at any port. Ciphertext stays bytes: only the nodes have the keys.
-- A batch that the kernel stored as one long packet is cut into its datagrams. Over TCP, weft's frames are inside TLS:
-- with the keys of the TLS connection Wireshark finds them by itself; "Decode As… weftcarrier" reads them without TLS.
--
-- Installation: the packages of weft install it. By hand, copy it to a directory that Help > About > Folders lists as
-- Lua plugins, or start: tshark -X lua_script:weft.lua

local weft = Proto("weft", "weft")
local carrier = Proto("weftcarrier", "weft over TCP")

local INITIATION, RESPONSE, COOKIE, DATA, CONTROL, RELAYED, LOOP_DATA, DATA_PART, DATA_WITH_REPORT = 1, 2, 3, 4, 5, 6, 7, 8, 9
local TYPES = {
  [INITIATION] = "Handshake initiation", [RESPONSE] = "Handshake response", [COOKIE] = "Cookie reply",
  [DATA] = "Data", [CONTROL] = "Control", [RELAYED] = "Relayed", [LOOP_DATA] = "Loop data", [DATA_PART] = "Data part",
  [DATA_WITH_REPORT] = "Data with a report",
}

-- Lengths in bytes, from docs/protocol.md.
local HOP_HEADER, TAG, LABEL, REPORT = 10, 16, 4, 13
local INITIATION_LEN, RESPONSE_LEN, COOKIE_LEN, CERTIFICATE = 168, 108, 52, 468
-- Least length of a datagram: the hop header, the least that is encrypted, the tag.
local LEAST = {
  [INITIATION] = INITIATION_LEN, [RESPONSE] = RESPONSE_LEN, [COOKIE] = COOKIE_LEN,
  [DATA] = HOP_HEADER + 6 + TAG, [CONTROL] = HOP_HEADER + 1 + TAG, [RELAYED] = HOP_HEADER + 26 + LABEL + TAG,
  [LOOP_DATA] = HOP_HEADER + 22 + 6 + TAG, [DATA_PART] = HOP_HEADER + 7 + TAG,
  [DATA_WITH_REPORT] = HOP_HEADER + 1 + REPORT + 6 + TAG,
}
local MOST = { [INITIATION] = INITIATION_LEN + CERTIFICATE, [RESPONSE] = RESPONSE_LEN + CERTIFICATE, [COOKIE] = COOKIE_LEN }
local PATHS, MAX_LABELS, MAX_FRAME, GREETING = 64, 6, 9216, 33
-- Longest datagram: above the longest path MTU that weft probes. A longer packet is a batch.
local ORDINARY = 1500
-- Greatest step of the packet number between two datagrams of a batch.
local MAX_STEP = 64

local f = {
  version = ProtoField.uint8("weft.version", "Version", base.DEC, nil, 0xf0),
  type = ProtoField.uint8("weft.type", "Type", base.DEC, TYPES, 0x0f),
  reserved = ProtoField.bytes("weft.reserved", "Reserved"),
  path = ProtoField.uint8("weft.path", "Path", base.DEC),
  receiver = ProtoField.uint32("weft.receiver", "Receiver index", base.HEX),
  sender = ProtoField.uint32("weft.sender", "Sender index", base.HEX),
  counter = ProtoField.uint32("weft.counter", "Packet number, low 32 bits", base.DEC),
  ciphertext = ProtoField.bytes("weft.ciphertext", "Encrypted"),
  tag = ProtoField.bytes("weft.tag", "Authentication tag"),
  ephemeral = ProtoField.bytes("weft.noise.ephemeral", "Ephemeral key"),
  static = ProtoField.bytes("weft.noise.static", "Static key, encrypted"),
  payload = ProtoField.bytes("weft.noise.payload", "Payload, encrypted"),
  certificate = ProtoField.bool("weft.noise.certificate", "Has room for a certificate"),
  mac1 = ProtoField.bytes("weft.mac1", "MAC by the receiver's key"),
  mac2 = ProtoField.bytes("weft.mac2", "MAC by a cookie"),
  nonce = ProtoField.bytes("weft.cookie.nonce", "Nonce"),
  sealed = ProtoField.bytes("weft.cookie.sealed", "Cookie, encrypted"),
  position = ProtoField.uint8("weft.relay.position", "Position on the route", base.DEC, nil, 0xf0),
  labels = ProtoField.uint8("weft.relay.labels", "Labels", base.DEC, nil, 0x0f),
  label = ProtoField.bytes("weft.relay.label", "Label, encrypted"),
}
weft.fields = {}
for _, field in pairs(f) do table.insert(weft.fields, field) end

local c = {
  length = ProtoField.uint16("weft.carrier.length", "Length of the datagram", base.DEC),
  proof = ProtoField.bytes("weft.carrier.proof", "Proof"),
  bundle = ProtoField.bytes("weft.carrier.bundle", "Bundle"),
  lane = ProtoField.uint8("weft.carrier.lane", "Lane", base.DEC, { [0] = "short datagrams", [1] = "long datagrams" }),
}
carrier.fields = { c.length, c.proof, c.bundle, c.lane }

local malformed = ProtoExpert.new("weft.malformed", "Not a datagram of weft", expert.group.MALFORMED, expert.severity.ERROR)
weft.experts = { malformed }

-- Returns a byte, or nil if the capture does not have it.
local function byte(bytes, at)
  return at < bytes:len() and bytes:get_index(at) or nil
end

-- Returns the type of the datagram of `len` bytes at an offset of a ByteArray, or nil if there is none. The capture may
-- have only its beginning.
local function type_at(bytes, at, len)
  local first, second = byte(bytes, at), byte(bytes, at + 1)
  if not second or first < 0x11 or first > 0x19 then return nil end
  local type = first % 16
  if len < LEAST[type] or len > (MOST[type] or 65535) then return nil end
  if type <= COOKIE then
    for i = 1, 3 do
      if (byte(bytes, at + i) or 0) ~= 0 then return nil end
    end
  elseif type == RELAYED then
    local position, labels = math.floor(second / 16), second % 16
    local within = len - HOP_HEADER - labels * LABEL - TAG
    if labels < 1 or labels > MAX_LABELS or position > labels or within < 1 then return nil end
    if byte(bytes, at + HOP_HEADER + 1) then
      local inner = type_at(bytes, at + HOP_HEADER, within)
      if not inner or inner == RELAYED then return nil end
    end
  elseif second >= PATHS then
    return nil
  end
  return type
end

local function u32(bytes, at)
  local value = 0
  for i = 0, 3 do value = value * 256 + bytes:get_index(at + i) end
  return value
end

-- True if a datagram with a hop header at `at` may follow the one at `before` in a batch: same path, next number.
local function follows(bytes, before, at, len)
  local type = type_at(bytes, at, len)
  if not type or type <= COOKIE then return false end
  local step = (u32(bytes, at + 6) - u32(bytes, before + 6)) % 4294967296
  return bytes:get_index(at + 1) == bytes:get_index(before + 1) and step >= 1 and step <= MAX_STEP
end

-- Returns the length of each datagram but the last of a batch, or the whole length.
local function stride(bytes, len)
  local first = type_at(bytes, 0, len)
  if len <= ORDINARY or not first or first <= COOKIE then return len end
  for size = LEAST[CONTROL], len - LEAST[CONTROL] do
    if follows(bytes, 0, size, math.min(size, len - size)) then
      local at, fits = size, true
      while fits and at + size < len do
        fits = follows(bytes, at, at + size, math.min(size, len - at - size))
        at = at + size
      end
      if fits then return size end
    end
  end
  return len
end

-- Adds a field of `len` bytes, or the captured part of it. A number is added whole or not at all.
local function add(tree, field, buffer, at, len)
  local captured = math.min(len, buffer:len() - at)
  if captured == len or (captured > 0 and len > 4) then tree:add(field, buffer(at, captured)) end
end

-- Returns a number of four bytes as text, or "?" if it was not captured.
local function number(buffer, at, form)
  return buffer:len() >= at + 4 and string.format(form, buffer(at, 4):uint()) or "?"
end

local function add_handshake(type, buffer, tree, len)
  add(tree, f.reserved, buffer, 1, 3)
  if type == COOKIE then
    add(tree, f.receiver, buffer, 4, 4)
    add(tree, f.nonce, buffer, 8, 12)
    add(tree, f.sealed, buffer, 20, 32)
    return "receiver " .. number(buffer, 4, "0x%08x")
  end
  local at, info = 8, "sender " .. number(buffer, 4, "0x%08x")
  add(tree, f.sender, buffer, 4, 4)
  if type == RESPONSE then
    add(tree, f.receiver, buffer, 8, 4)
    info = info .. ", receiver " .. number(buffer, 8, "0x%08x")
    at = 12
  end
  add(tree, f.ephemeral, buffer, at, 32)
  at = at + 32
  if type == INITIATION then
    add(tree, f.static, buffer, at, 48)
    at = at + 48
  end
  add(tree, f.payload, buffer, at, len - 32 - at)
  tree:add(f.certificate, len > LEAST[type]):set_generated()
  add(tree, f.mac1, buffer, len - 32, 16)
  add(tree, f.mac2, buffer, len - 16, 16)
  return info
end

local add_datagram

local function add_hop(type, buffer, tree, len)
  local info = "receiver " .. number(buffer, 2, "0x%08x") .. ", number " .. number(buffer, 6, "%u")
  local code = buffer(1, 1):uint()
  if type == RELAYED then
    add(tree, f.position, buffer, 1, 1)
    add(tree, f.labels, buffer, 1, 1)
    info = string.format("at %u of %u labels, %s", math.floor(code / 16), code % 16, info)
  else
    add(tree, f.path, buffer, 1, 1)
    info = string.format("path %u, %s", code, info)
  end
  add(tree, f.receiver, buffer, 2, 4)
  add(tree, f.counter, buffer, 6, 4)
  if type == RELAYED then
    local labels = code % 16
    local within = len - HOP_HEADER - labels * LABEL - TAG
    local captured = math.min(within, buffer:len() - HOP_HEADER)
    if captured >= 2 then info = info .. ": " .. add_datagram(buffer(HOP_HEADER, captured):tvb(), tree, within) end
    for i = 0, labels - 1 do add(tree, f.label, buffer, HOP_HEADER + within + i * LABEL, LABEL) end
  else
    add(tree, f.ciphertext, buffer, HOP_HEADER, len - HOP_HEADER - TAG)
  end
  add(tree, f.tag, buffer, len - TAG, TAG)
  return info
end

-- Adds one datagram of `len` bytes to the tree, and returns its description.
function add_datagram(buffer, tree, len)
  local subtree = tree:add(weft, buffer())
  local type = type_at(buffer:bytes(), 0, len)
  if not type then
    subtree:add_proto_expert_info(malformed)
    return "malformed"
  end
  add(subtree, f.version, buffer, 0, 1)
  add(subtree, f.type, buffer, 0, 1)
  local info = TYPES[type] .. ", " .. (type <= COOKIE and add_handshake or add_hop)(type, buffer, subtree, len)
  subtree:append_text(": " .. info)
  return info
end

-- Dissects a UDP payload: one datagram, or a batch.
function weft.dissector(buffer, pinfo, tree)
  local len, whole = buffer:len(), buffer:reported_len()
  if len == 0 then return 0 end
  pinfo.cols.protocol = "weft"
  local size = len == whole and stride(buffer:bytes(), len) or whole
  local at, count, info = 0, 0, nil
  while at < len do
    local text = add_datagram(buffer(at, math.min(size, len - at)):tvb(), tree, math.min(size, whole - at))
    info, at, count = info or text, at + size, count + 1
  end
  if count > 1 then info = info .. string.format(" and %d more in one batch", count - 1) end
  pinfo.cols.info = info
  return len
end

-- Finds weft in a datagram of an unknown port. A handshake marks its conversation, so that all others are weft's, too.
local function find_in_udp(buffer, pinfo, tree)
  local type = type_at(buffer:bytes(), 0, buffer:reported_len())
  if not type then return false end
  if type == INITIATION or type == RESPONSE then pinfo.conversation = weft end
  weft.dissector(buffer, pinfo, tree)
  return true
end
weft:register_heuristic("udp", find_in_udp)
DissectorTable.get("udp.port"):add_for_decode_as(weft)

-- Returns the length of the greeting at the start of a stream, or 0. A frame never begins like one: its first bytes are
-- a length, and a datagram follows.
local function greeting_len(buffer)
  local bytes, len = buffer:bytes(), buffer:len()
  if len < GREETING or bytes:get_index(GREETING - 1) > 1 then return 0 end
  if len == GREETING then return GREETING end
  if len < GREETING + 3 then return 0 end
  local next = bytes:get_index(GREETING) * 256 + bytes:get_index(GREETING + 1)
  local first = bytes:get_index(GREETING + 2)
  return next >= 1 and next <= MAX_FRAME and first >= 0x11 and first <= 0x19 and GREETING or 0
end

local function frame_len(buffer, at)
  local len = buffer(at, 2):uint()
  return len >= 1 and len <= MAX_FRAME and len or nil
end

function carrier.dissector(buffer, pinfo, tree)
  local len, at, info = buffer:len(), 0, {}
  pinfo.cols.protocol = "weft"
  local first_is_frame = len >= 3 and frame_len(buffer, 0) and buffer(2, 1):uint() >= 0x11 and buffer(2, 1):uint() <= 0x19
  if not first_is_frame and greeting_len(buffer) > 0 then
    local subtree = tree:add(carrier, buffer(0, GREETING), "weft over TCP: greeting")
    subtree:add(c.proof, buffer(0, 16))
    subtree:add(c.bundle, buffer(16, 16))
    subtree:add(c.lane, buffer(32, 1))
    at = GREETING
    table.insert(info, "Greeting")
  end
  while at < len do
    local datagram = len - at >= 2 and frame_len(buffer, at)
    if len - at < 2 or (datagram and len - at < 2 + datagram) then
      pinfo.desegment_offset = at
      pinfo.desegment_len = datagram and 2 + datagram - (len - at) or DESEGMENT_ONE_MORE_SEGMENT
      break
    end
    if not datagram then
      tree:add(carrier, buffer(at)):add_proto_expert_info(malformed)
      break
    end
    local subtree = tree:add(carrier, buffer(at, 2 + datagram))
    subtree:add(c.length, buffer(at, 2))
    table.insert(info, add_datagram(buffer(at + 2, datagram):tvb(), subtree, datagram))
    at = at + 2 + datagram
  end
  if #info > 0 then pinfo.cols.info = table.concat(info, " | ") .. " " end
  return len
end

-- Finds frames in what TLS protects.
local function find_in_tls(buffer, pinfo, tree)
  local len = buffer:len()
  local is_frame = len >= 4 and frame_len(buffer, 0) and type_at(buffer:bytes(), 2, frame_len(buffer, 0))
  if not is_frame and greeting_len(buffer) == 0 then return false end
  carrier.dissector(buffer, pinfo, tree)
  return true
end
pcall(function() carrier:register_heuristic("tls", find_in_tls) end)
for _, name in ipairs({ "tcp.port", "tls.port" }) do
  local found, ports = pcall(DissectorTable.get, name)
  if found and ports then ports:add_for_decode_as(carrier) end
end
