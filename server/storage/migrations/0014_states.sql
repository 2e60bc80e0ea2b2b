-- Version 14. Designers' states (Provenance.carry of a trial's body) are written as bytes of lib/base/checkpoint.h. Rows
-- with the texts of before stay as they are: lib/search/legacy_state.cc reads them. Programs of older versions would take
-- the bytes for damaged texts, and suggest as though nothing were known. Options of algorithms that few need stand in the
-- field `expert` of a spec, and some are no more; rows stay as they are here, too: wire::MoveOldOptions reads both forms.
PRAGMA user_version = 14;
